"""Project templates: fetched, checked, installed, compared, updated."""
