"""What a person sees in the terminal and what machines read, one file per kind of result."""
