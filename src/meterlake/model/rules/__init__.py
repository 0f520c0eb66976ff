"""What must hold between an entity and the others around it, as named functions.

Each rule looks at one proposed entity and raises when it breaks; `RESOURCES` says which rules a
kind has.
"""

from meterlake.model.rules.proposed import Proposed, Rule

__all__ = ["Proposed", "Rule"]
