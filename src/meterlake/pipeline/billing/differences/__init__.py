"""Why a bill came out differently: what changed is found, applied one by one, and named."""
