"""What all pages of the console stand on: sign-in, session, calls of the API, layout."""
