"""Visits every address of the URL configuration, so that a new one is visited without anybody remembering it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from asgiref.sync import async_to_sync
from django.http import HttpResponseBase, StreamingHttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.regex_helper import normalize

#: What is sent to each address that takes something.
JSON_BODY = json.dumps({"position": 1, "mode": "checks", "text": "x = 1\n", "level": "1", "evidence": "x"})
QUERIES = ("?position=1&version=1&show=live", "?position=2&show=ended")


@dataclass(frozen=True, slots=True)
class Address:
    """A pattern of the configuration: its place with ``%(name)s`` for each parameter, and the parameters' names."""

    name: str
    place: str
    parameters: tuple[str, ...]

    def urls(self, values: Mapping[str, Sequence[str]]) -> Iterator[str]:
        """The address with every combination of values. A parameter that nobody gave values for is an error."""
        unknown = [parameter for parameter in self.parameters if parameter not in values]
        if unknown:
            raise LookupError(
                f"{self.name} at {self.place} has the parameter {unknown[0]!r}: give the walk values for it"
            )
        for chosen in itertools.product(*(values[parameter] for parameter in self.parameters)):
            yield self.place % dict(zip(self.parameters, chosen, strict=True))


def addresses() -> list[Address]:
    """Every address, from the resolver."""
    return list(_below(get_resolver(), "/", "", ()))


def _below(resolver: URLResolver, place: str, namespace: str, parameters: tuple[str, ...]) -> Iterator[Address]:
    for pattern in resolver.url_patterns:
        # The first way to write it is enough: the others leave optional parts out.
        ending, own = normalize(pattern.pattern.regex.pattern)[0]
        names = (*parameters, *own)
        if isinstance(pattern, URLResolver):
            below = ":".join(filter(None, (namespace, pattern.namespace)))
            yield from _below(pattern, place + ending, below, names)
        elif isinstance(pattern, URLPattern):
            name = ":".join(filter(None, (namespace, pattern.name))) or ending
            yield Address(name, place + ending, names)


@dataclass(frozen=True, slots=True)
class Answer:
    """All that came back from one request, headers included."""

    name: str
    request: str
    status: int
    text: str


def walk(client: Client, values: Mapping[str, Sequence[str]]) -> Iterator[Answer]:
    """Reads every address in several ways, and sends something to each. What it changes, it changes."""
    for address in addresses():
        if address.name == "account_logout":
            # Once out, there is nobody left to walk.
            continue
        for url in address.urls(values):
            yield _answer(address, f"GET {url}", client.get(url))
            yield _answer(address, f"POST {url}", client.post(url, {"position": "1", "level": "1"}))
            # The administration and the accounts know no other way to ask, and are many.
            if address.name.startswith(("admin:", "account_")):
                continue
            for query in QUERIES:
                yield _answer(address, f"GET {url}{query}", client.get(url + query))
            yield _answer(address, f"GET {url} (htmx)", client.get(url, headers={"HX-Request": "true"}))
            yield _answer(address, f"POST {url} (JSON)", client.post(url, JSON_BODY, content_type="application/json"))


def _answer(address: Address, request: str, response: HttpResponseBase) -> Answer:
    headers = "\n".join(f"{name}: {value}" for name, value in response.items())
    cookies = response.cookies.output()
    return Answer(address.name, request, response.status_code, f"{headers}\n{cookies}\n{_body(response)}")


def _body(response: HttpResponseBase) -> str:
    if not isinstance(response, StreamingHttpResponse):
        return str(response.content.decode(errors="replace"))  # type: ignore[attr-defined]
    if not response.is_async:
        return b"".join(response).decode(errors="replace")

    async def read() -> bytes:
        return b"".join([part async for part in response])

    return async_to_sync(read)().decode(errors="replace")
