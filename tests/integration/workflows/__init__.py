"""Task templates with steps, with the real daemon, real git and real workers."""
