"""UDP server or client in the network of a pod. Runs as a process.

`python datagrammer.py go-on HOST PORT` asks ten times a second from one port until its input ends. It prints as
JSON, for each question, its time and whether it was answered within three seconds.

`python datagrammer.py serve PORT NAME` answers with its name until its input ends.

`python datagrammer.py ask HOST PORT COUNT CLIENTS` asks COUNT times from each of CLIENTS ports. It prints as
JSON the number of answers by name, of wrong or missing answers, and the median latency in seconds.
"""

import json
import select
import socket
import statistics
import sys
import time
from collections import Counter
from typing import Any

SECONDS = 5.0
"""Timeout of an answer in seconds."""


def serve(port: int, name: str) -> None:
    """Answer until the input ends."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.bind(("0.0.0.0", port))
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([own, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            data, client = own.recvfrom(65535)
            own.sendto(f"{name} ".encode() + data, client)


def ask(host: str, port: int, count: int, clients: int) -> dict[str, Any]:
    """Ask one question after the other."""
    answered, lost, took = Counter[str](), 0, list[float]()
    for client in range(clients):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.connect((host, port))
            own.settimeout(SECONDS)
            for number in range(count):
                said, began = f"{client}/{number}", time.perf_counter()
                own.send(said.encode())
                try:
                    name, _, heard = own.recv(65535).decode().partition(" ")
                except OSError:
                    name, heard = "", ""
                took.append(time.perf_counter() - began)
                if heard == said:
                    answered[name] += 1
                else:
                    lost += 1
    return {"answered": answered, "lost": lost, "p50": statistics.median(took)}


def go_on(host: str, port: int) -> list[tuple[float, bool]]:
    """Ask from one port until the input ends."""
    told = list[tuple[float, bool]]()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
        own.connect((host, port))
        own.settimeout(3)
        while not select.select([sys.stdin], [], [], 0.1)[0]:
            said, heard, began = str(len(told)), "", time.time()
            try:
                own.send(said.encode())
                # A late answer belongs to another question.
                while heard != said:
                    heard = own.recv(65535).decode().partition(" ")[2]
            except OSError:
                pass
            told.append((began, heard == said))
    return told


if __name__ == "__main__":
    if sys.argv[1] == "go-on":
        print(json.dumps(go_on(sys.argv[2], int(sys.argv[3]))))
    elif sys.argv[1] == "serve":
        serve(int(sys.argv[2]), sys.argv[3])
    else:
        print(json.dumps(ask(sys.argv[2], *map(int, sys.argv[3:]))))
