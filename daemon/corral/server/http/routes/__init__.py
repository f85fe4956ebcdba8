"""HTTP: one module per noun. A route reads the request, calls one function, and shapes the answer."""
