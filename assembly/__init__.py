"""What programs put together of the packages, from their flags alone."""
