"""Operators that other projects wrote, built from their Go modules and run as processes."""
