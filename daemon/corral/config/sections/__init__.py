"""The sections of the settings: a frozen class for each."""
