"""The web view as a browser meets it: over its port, with what a browser sends."""

from __future__ import annotations

import http.client
import re
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from tests.support.coordinated import Coordinated

Headers = dict[str, str]


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    headers: Headers

    @property
    def token(self) -> str:
        """The token of the page's forms."""
        match = re.search(r'name="token" value="([0-9a-f]{64})"', self.text)
        assert match, self.text[:500]
        return match.group(1)


@dataclass
class Visitor:
    """A browser without a screen: it sends the cookie that it was given, and what each test wants to be otherwise."""

    port: int
    cookie: str = ""
    sent: Headers = field(default_factory=dict)

    def request(self, method: str, path: str, body: bytes | None = None, **other: str | None) -> Answer:
        """One request; a header that is None is left out."""
        own = f"127.0.0.1:{self.port}"
        usual: dict[str, str | None] = {"Host": own, "Cookie": self.cookie or None, "Sec-Fetch-Site": "same-origin"}
        if method == "POST":
            usual |= {"Origin": f"http://{own}", "Content-Type": "application/x-www-form-urlencoded"}
        headers = {**usual, **{name.replace("_", "-"): value for name, value in other.items()}}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        answer = Answer(
            response.status,
            response.read().decode(errors="replace"),
            {name.lower(): value for name, value in response.getheaders()},
        )
        connection.close()
        return answer

    def get(self, path: str, **other: str | None) -> Answer:
        """Ask for a page."""
        return self.request("GET", path, None, **other)

    def post(self, path: str, other: dict[str, str | None] | None = None, **fields: str) -> Answer:
        """Send a form."""
        return self.request("POST", path, urlencode(fields).encode(), **(other or {}))

    def come_in(self, link: str) -> Answer:
        """Open a link, and keep the cookie."""
        parts = urlsplit(link)
        answer = self.get(f"{parts.path}?{parts.query}", Sec_Fetch_Site="none")
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer


def link(house: Coordinated) -> str:
    """A new link to the web view."""
    return str(house.ask("POST", "/web/links")["url"])


def visitor(house: Coordinated) -> Visitor:
    """A browser that has come in."""
    address = link(house)
    made = Visitor(urlsplit(address).port or 0)
    assert made.come_in(address).status == 303
    return made
