"""Addresses that a webhook may have: public ones alone, so that no team can call what only this host reaches."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

HTTPS_PORT = 443
# What else there is of IPv6 is local, or leads a translator or a tunnel to any IPv4 address (RFC 4291, 6052, 3056).
_IPV6_PUBLIC = ipaddress.ip_network("2000::/3")
# The tables of some Python versions take a part of it for public (RFC 6890).
_IPV4_PROTOCOLS = ipaddress.ip_network("192.0.0.0/24")


@dataclass(frozen=True)
class Target:
    """Where to connect to, and as whom. The address was looked at; the name could mean another one a moment later."""

    host: str
    address: str
    path: str


def check_address(url: str) -> tuple[str, str]:
    """Return the host and the path of `url`. Raises ValueError when it is not an https address of a public name."""
    try:
        parts = urlsplit(url)
        port = parts.port or HTTPS_PORT
    except ValueError as error:
        raise ValueError("This is no address. Give one such as https://example.org/hook.") from error
    if parts.scheme != "https" or not parts.hostname or port != HTTPS_PORT:
        raise ValueError("Give an https address on the usual port, such as https://example.org/hook.")
    if parts.username or parts.password:
        raise ValueError("Leave name and password out of the address; each request is signed instead.")
    if not parts.hostname.isascii() or any(ord(character) <= ord(" ") for character in url):
        raise ValueError("Write the address in ASCII, without spaces.")
    if _is_literal(parts.hostname) and not is_public(parts.hostname):
        raise ValueError("This address is a private one. Give one that everybody can reach.")
    path = parts.path or "/"
    return parts.hostname, f"{path}?{parts.query}" if parts.query else path


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_public(address: str) -> bool:
    """Return whether an IP address is one of the open internet."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            found = found.ipv4_mapped
        elif found not in _IPV6_PUBLIC or found.sixtofour or found.teredo:
            return False
    return found.is_global and not found.is_multicast and found not in _IPV4_PROTOCOLS


def resolve(url: str) -> Target:
    """Return where to connect to for `url`. Raises ValueError unless every address of its name is public."""
    host, path = check_address(url)
    try:
        found = socket.getaddrinfo(host, HTTPS_PORT, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ValueError(f"The name {host} is not known.") from error
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(map(is_public, addresses)):
        raise ValueError(f"The name {host} leads to a private address.")
    return Target(host, addresses[0], path)
