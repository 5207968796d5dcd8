"""Logs: readers for every format, and what real recordings need before they can be used."""
