"""HTTP: the application around the operations, who may come in, and the calls that are answered without a framework."""
