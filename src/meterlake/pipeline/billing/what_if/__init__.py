"""History priced anew: bills of months as they are and as they would be; nothing is stored."""

from meterlake.pipeline.billing.what_if.comparison import WhatIf, WhatIfChoice, compare_history
from meterlake.pipeline.billing.what_if.configurations import accounts_named, propose_records

__all__ = ["WhatIf", "WhatIfChoice", "accounts_named", "compare_history", "propose_records"]
