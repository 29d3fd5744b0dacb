"""Why a run is as it is, and whether every due time is accounted for, from the log."""
