"""What ``make`` calls. Standard library only: most of it runs before the project's environment exists."""
