"""The view that every face shows, composed once: needs of a person first, then work, the queue and the latest events."""
