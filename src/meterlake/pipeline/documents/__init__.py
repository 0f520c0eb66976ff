"""Documents: bills as pages and as PDF files that people send, made from templates."""
