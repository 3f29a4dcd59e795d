"""Where to listen or to ask: `HOST:PORT`, an IPv6 address in brackets. Pure."""


def split(text: str) -> tuple[str, int]:
    """Host, empty for every address, and port, 0 for any. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (colon and port.isascii() and port.isdecimal() and int(port) < 65536):
        raise ValueError("must be HOST:PORT, for example :9443 (all addresses) or 127.0.0.1:9443")
    return host.removeprefix("[").removesuffix("]"), int(port)


def join(host: str, port: int) -> str:
    """The same the other way round."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
