"""Pages for people: self-contained HTML that works offline."""
