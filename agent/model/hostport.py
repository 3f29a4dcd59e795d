"""Network addresses `HOST:PORT`, with IPv6 addresses in brackets. Pure."""


def split(text: str) -> tuple[str, int]:
    """Return host (empty for all addresses) and port (0 for any).

    :raises ValueError: if the text is not HOST:PORT
    """
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ValueError("must be HOST:PORT, for example :9443 (all addresses) or 127.0.0.1:9443")
    return host.removeprefix("[").removesuffix("]"), int(port)


def join(host: str, port: int) -> str:
    """Return HOST:PORT."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
