"""The egress guard: the one way out of Windlass to other hosts.

Who gives a URL to a job queue makes its workers call it, from within a network that trusts them.
So every URL is taken for hostile, whoever gave it, and every server behind it, too.

The way of a call:

    text ── parse_url ──► Target ── check_target ──► kept connection? ──► send
                                                          │ no               ▲
                                    resolve, once ◄───────┘                  │
                                          │                                  │
                                          ▼                                  │
                               check_address, all of them ──► connect ── TLS ┘

    redirect ──► all of this again, at most 3 times

Invariants:

1. Nothing is sent to an address that was not checked, the packet that opens a connection
   included. What is connected to is the checked address, never the name again.
2. One refused address refuses the host. An address is refused unless it is known to be public,
   and not this machine's own.
3. TLS proves the name in the URL, and Host carries it, whichever address was dialed.
4. Another origin is given no header of the caller's that might be a credential.
5. A call ends within its time, counted as a whole. It keeps no more in memory than its limits say.
6. The caller learns that a URL is refused, or that there was no usable answer: not which address a
   private name has, nor whether a port is open. The second is said when the time of the call is
   over, never before. The log has the reasons.

Nothing is kept but idle connections: if a process dies here, the call may have reached the other
side or not, and whoever ordered it finds out by calling again.
"""

from windlass.egress.addresses import Resolver
from windlass.egress.guard import EgressGuard
from windlass.egress.message import Answer
from windlass.egress.policy import EgressPolicy, Limits

__all__ = ["Answer", "EgressGuard", "EgressPolicy", "Limits", "Resolver"]
