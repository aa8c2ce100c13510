"""Whether a launch may have the secrets that its dagger finds by itself, by {file} or {env}: where the
administrator of this host switches them off, only those in places that are allowed.

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
    """What an administrator says of secrets on this host."""

    places: Sequence[Place] = ()
    enforced: bool = False
    """Whether secrets elsewhere end a launch, and are not only told of."""

    def check(self, fleet: Fleet, dagger: Dagger) -> None:
        """Raises: UnresolvedName where it is enforced."""
        for field, to in self.outside(fleet, dagger):
            if self.enforced:
                text = (
                    f"{field} is in no place that the administrator of its host allows to team"
                    f" {dagger.spec.team} for {to}: register it, and name it instead"
                )
                raise UnresolvedName("SECRET_PLACE", text)

    def tell(self, fleet: Fleet, dagger: Dagger) -> None:
        """Say what would be refused if it were enforced."""
        for field, to in self.outside(fleet, dagger):
            logger().warning("secret.place_refused", dagger=dagger.name, field=field, to=to)

    def outside(self, fleet: Fleet, dagger: Dagger) -> list[tuple[str, str]]:
        """The fields whose secrets are in no allowed place, and where these are sent."""
        team = dagger.spec.team
        sent = own_secrets(fleet, dagger.name, dagger.spec)
        return [(field, to) for field, place, to in sent if not allowed(self.places, place, team, to)]
