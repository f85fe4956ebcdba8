"""The audit: who did what, with which parameters and result; noted by every edge, written behind the answer, checked by hash."""
