"""Usage metering and billing: measurements in, exact bills out, every cent explained."""
