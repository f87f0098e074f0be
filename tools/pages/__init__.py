"""Generated pages of docs/, one per file: page() returns the text."""
