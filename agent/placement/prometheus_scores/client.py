"""Client of Prometheus' HTTP API: instant queries, each on a separate connection, limited in time and size."""

import asyncio
import functools
import ssl

import aiohttp

from agent.base.cancelling import cancelled_only_if_told
from agent.model.promscore import PrometheusScore
from agent.placement.prometheus_scores.decide import BadAnswer, read_answer

LIMIT = 8 << 20
"""Maximum bytes of an answer: enough for tens of thousands of clusters."""
_PIECE = 1 << 16


class NoAnswer(Exception):
    """Failure to query Prometheus; the message is the reason."""


async def ask(score: PrometheusScore, token: str, timeout: float) -> dict[str, int]:
    """Query Prometheus once, and return scores by cluster.

    :param token: bearer token; empty for none
    :param timeout: seconds
    :raises NoAnswer, BadAnswer: if there is no answer, or none with scores
    """
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "flotilla"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    form = {"query": score.query, "timeout": f"{timeout:g}s"}
    try:
        with cancelled_only_if_told():
            async with (
                asyncio.timeout(timeout),
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=_trust(score.ca_bundle), limit=1),
                    timeout=aiohttp.ClientTimeout(total=None),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,
                ) as session,
                session.post(f"{score.url}/api/v1/query", data=form, headers=headers, allow_redirects=False) as answer,
            ):
                return read_answer(await _body(answer), answer.status, score)
    except TimeoutError:
        raise NoAnswer(f"no answer from {score.url} within {timeout:g} s") from None
    except aiohttp.ClientConnectorCertificateError as error:
        reason = error.certificate_error
        raise NoAnswer(f"the certificate of {score.url} is not trusted, see caBundle: {reason}") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise NoAnswer(f"{score.url} cannot be reached: {error}") from error


async def _body(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in answer.content.iter_chunked(_PIECE):
        body += piece
        if len(body) > LIMIT:
            raise BadAnswer(f"the answer is longer than {LIMIT >> 20} MiB: have the query aggregate by cluster")
    return bytes(body)


@functools.cache
def _trust(ca_bundle: str) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca_bundle or None)
