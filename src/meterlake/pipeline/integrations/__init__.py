"""What is handed over to other systems: notifications to webhooks, bills to their systems."""
