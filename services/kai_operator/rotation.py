"""Certificates of an installation as they should be now: made, renewed before they end, and never missed.

A renewal has two steps. First the next pair is put beside the current one, and its authority is trusted
beside the others; all read it in their own time. When the settling time has passed the next pair becomes the
current one. Only when that has settled, too, is the old authority forgotten. So at each moment everybody
trusts whatever anybody shows, unless nobody looks for so long that a pair ends before the next one has
settled. Keys of authorities are forgotten as soon as they have signed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from kai.runtime import certificates
from kai.runtime.certificates import CertificateUsage, KeyPair

ISSUED: Final = "kai.scheduler/issued"
#: When the next pair was put beside the current one, and when a pair last took another's place: Unix time.
NEXT_SINCE: Final = "kai.scheduler/next-since"
REPLACED: Final = "kai.scheduler/replaced"
#: What reading a certificate or a key of somebody else comes to: keys with a pass phrase, of other kinds, and
#: extensions that say nothing to us.
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a Secret holds: what to trust, the pair in use, and the one after it. Times are Unix seconds."""

    trusted: bytes
    pair: KeyPair
    issued: int
    following: KeyPair | None = None
    following_since: int = 0
    replaced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long certificates are good, how long before their end they are renewed, how long their authorities
    last, and how long a changed Secret may need to reach everybody.
    """

    lifetime: timedelta
    renew_before: timedelta
    authority_lifetime: timedelta
    settling: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A pair, and the authority that signed it."""

    pair: KeyPair
    signer: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is to be in the Secrets now, what to trust, and when to look again.

    ``issued``, by Secret, is what is new in it; who cannot write it gives it to the next turn.
    """

    held: Mapping[str, Held]
    trusted: bytes
    due: datetime
    issued: Mapping[str, Issued]


@dataclass(slots=True)
class _Authority:
    """Made when the first certificate needs one; its key is gone with this object.

    What was ``unwritten`` is issued again, while it is good: each new one would have to be trusted anew.
    """

    name: str
    now: datetime
    terms: Terms
    unwritten: Mapping[str, Issued]
    issued: dict[str, Issued] = field(default_factory=dict)
    _pair: KeyPair | None = field(default=None)

    def issue(self, secret: str, host: str) -> Issued:
        """A pair for this Secret, with this name in its certificate."""
        known = self.unwritten.get(secret)
        if known is None or not self._is_good(known, host):
            known = self._new(host)
        self.issued[secret] = known
        return known

    def _is_good(self, known: Issued, host: str) -> bool:
        usable = _is_usable(known.pair, host, known.signer, self.now)
        return usable and self.now < _renewal(known.pair, self.terms)

    def _new(self, host: str) -> Issued:
        if self._pair is None:
            lasting = max(self.terms.authority_lifetime, self.terms.lifetime)
            self._pair = certificates.new_authority(self.name, now=self.now, lifetime=lasting)
        usages = CertificateUsage.SERVER, CertificateUsage.CLIENT
        pair = certificates.issue(
            self._pair, [host], now=self.now, lifetime=self.terms.lifetime, usages=usages
        )
        return Issued(pair=pair, signer=self._pair.certificate)


def turn(
    purpose: str,
    hosts: Mapping[str, str],
    found: Mapping[str, Held | None],
    *,
    terms: Terms,
    now: datetime,
    unwritten: Mapping[str, Issued] | None = None,
) -> Turn:
    """What is to be in the Secrets of one purpose now. ``hosts``: Secret -> the name in its certificate.

    Calling it again with what it gave changes nothing before it is ``due``. ``unwritten`` is what was issued
    before and is in no Secret yet.
    """
    authority = _Authority(f"kai-scheduler {purpose}", now, terms, unwritten or {})
    known = b"".join(held.trusted for held in found.values() if held is not None)
    held = {
        name: _advanced(name, found.get(name), host, known, authority, terms, now)
        for name, host in hosts.items()
    }
    signers = (each.signer for each in authority.issued.values())
    trusted = _needed(b"".join((known, *signers)), held, terms, now)
    return Turn(
        held={name: replace(one, trusted=trusted) for name, one in held.items()},
        trusted=trusted,
        due=min((_due(one, terms, now) for one in held.values()), default=now + terms.lifetime),
        issued=authority.issued,
    )


def _advanced(
    name: str,
    found: Held | None,
    host: str,
    trusted: bytes,
    authority: _Authority,
    terms: Terms,
    now: datetime,
) -> Held:
    """The next state of the Secret of this name.

    A pair that is of no use any more gives way to the one after it, which others know already, rather than
    to a new one, which nobody knows yet.
    """
    seconds = int(now.timestamp())

    def anew() -> Held:
        # Shown at once: there is no other, so nobody gains by waiting until it is trusted.
        return Held(trusted=trusted, pair=authority.issue(name, host).pair, issued=seconds)

    if found is None:
        return anew()
    if found.following is not None and not _is_usable(found.following, host, trusted, now):
        found = replace(found, following=None, following_since=0)
    usable = _is_usable(found.pair, host, trusted, now)
    settled = now >= _time(found.following_since) + terms.settling
    following = found.following
    if following is not None and (settled or not usable):
        return Held(trusted=trusted, pair=following, issued=found.following_since, replaced=seconds)
    if not usable:
        return anew()
    if following is not None and not settled:
        return found
    if now >= _renewal(found.pair, terms):
        return replace(found, following=authority.issue(name, host).pair, following_since=seconds)
    return found


def _is_usable(pair: KeyPair, host: str, trusted: bytes, now: datetime) -> bool:
    """Whether a pair can be shown to whoever trusts these authorities."""
    try:
        begin, end = certificates.validity(pair.certificate)
        return (
            certificates.fits(pair)
            and certificates.covers(pair.certificate, [host])
            # One of tomorrow was made by a clock that was ahead, and is of use to nobody else today.
            and begin <= now < end
            and certificates.signed_by_one_of(pair.certificate, trusted)
        )
    except _UNREADABLE:
        return False


def _renewal(pair: KeyPair, terms: Terms) -> datetime:
    """Certificates of other terms, such as those of an earlier release, are renewed by ours."""
    return certificates.validity(pair.certificate)[1] - terms.renew_before


def _due(held: Held, terms: Terms, now: datetime) -> datetime:
    """When this Secret has to be looked at again."""
    due = _renewal(held.pair, terms)
    if held.following is not None:
        due = _time(held.following_since) + terms.settling
    settled = _settled(held, terms)
    return min(due, settled) if settled > now else due


def _settled(held: Held, terms: Terms) -> datetime:
    """When everybody has the pair in use."""
    return _time(max(held.issued, held.replaced)) + terms.settling


def _needed(known: bytes, held: Mapping[str, Held], terms: Terms, now: datetime) -> bytes:
    """Of these authorities those that somebody may still be shown a certificate of, newest first."""
    settling = any(_settled(one, terms) > now for one in held.values())
    shown = [pair.certificate for one in held.values() for pair in (one.pair, one.following) if pair]
    kept: list[bytes] = [
        authority
        for authority in certificates.split(certificates.bundle([known], now=now))
        if settling or any(certificates.signed_by_one_of(each, authority) for each in shown)
    ]
    kept.sort(key=_age, reverse=True)
    return b"".join(kept)


def _age(authority: bytes) -> tuple[datetime, datetime, bytes]:
    return *certificates.validity(authority), authority


def _time(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
