"""The runs of integrations: what is handed over to other systems, try by try."""
