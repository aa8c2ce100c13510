"""Feeds the topics of the example streams with a simulated city, until Ctrl-C.

    .venv/bin/python examples/feeder.py --kafka 127.0.0.1:9092

Bookings go to `booking-log`, driver pings to `driver-ping-log` (schemas/ has their messages), a broken record
now and then among them. The city and its pace are those of `daggers demo`.
"""

import argparse
import contextlib
from pathlib import Path

from cli.files.proto_files import load
from devstack.demo.encoding import example_files
from devstack.demo.feeder import Feeder, Topics, create_topics, next_window


def main() -> None:
    """Feed until interrupted, or for --seconds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kafka", required=True, help="bootstrap servers, host:port")
    parser.add_argument("--seconds", type=float, default=None, help="how long; default: until Ctrl-C")
    parser.add_argument("--seed", type=int, default=42, help="another seed is another city")
    arguments = parser.parse_args()

    topics = Topics()
    create_topics(arguments.kafka, topics)
    schema = load(example_files(Path(__file__).parent), ())
    feeder = Feeder(arguments.kafka, topics, schema, start=next_window(), seed=arguments.seed)
    feeder.start()
    with contextlib.suppress(KeyboardInterrupt):
        feeder.join(arguments.seconds)
    feeder.stop()
    fed = feeder.fed
    print(f"fed {len(fed.bookings)} bookings and {len(fed.pings)} pings")  # noqa: T201 - a script's answer


if __name__ == "__main__":
    main()
