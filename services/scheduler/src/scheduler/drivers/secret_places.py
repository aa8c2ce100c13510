"""Decides which secrets a launch may have that its dagger finds by itself, by {file} or {env}: all, or only
those in
allowed places, as the administrator of this host says.

Registered secrets, and what clusters have, are judged where they are registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chassis.logging import logger
from daggerspec.catalogue import UnresolvedName
from daggerspec.places import Place, allowed
from fleet import Dagger, Fleet
from fleet.fold.resolve import own_secrets


@dataclass(frozen=True, slots=True)
class SecretRule:
    """Rule of an administrator about secrets on this host."""

    places: Sequence[Place] = ()
    enforced: bool = False
    """True when secrets elsewhere end a launch, instead of a warning."""

    def check(self, fleet: Fleet, dagger: Dagger) -> None:
        """Refuse a launch that has such a secret elsewhere. Raises: UnresolvedName where the rule is
        enforced.
        """
        for field, to in self.outside(fleet, dagger):
            if self.enforced:
                text = (
                    f"{field} is in no place that the administrator of its host allows to team"
                    f" {dagger.spec.team} for {to}: register it, and name it instead"
                )
                raise UnresolvedName("SECRET_PLACE", text)

    def tell(self, fleet: Fleet, dagger: Dagger) -> None:
        """Log what would be refused if the rule were enforced."""
        for field, to in self.outside(fleet, dagger):
            logger().warning("secret.place_refused", dagger=dagger.name, field=field, to=to)

    def outside(self, fleet: Fleet, dagger: Dagger) -> list[tuple[str, str]]:
        """Return the fields whose secrets are in no allowed place, and where these are sent."""
        team = dagger.spec.team
        sent = own_secrets(fleet, dagger.name, dagger.spec)
        return [(field, to) for field, place, to in sent if not allowed(self.places, place, team, to)]
