"""One generated page of docs/ a file: page() is its text."""
