"""Chaperon -> proxy pod: status of the delegate, copied to its proxy pod."""
