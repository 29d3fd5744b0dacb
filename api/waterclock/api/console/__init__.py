"""The web console: its files, its pages, and how a browser signs in. `README.md` says how a page is made."""
