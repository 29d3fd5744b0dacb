"""Alerts: a reader of the log of its own that tells a webhook what people want to be woken for.

Everything it knows is one value in the control bucket, compared and set: how far it has read, what fails at the moment,
and what is still to be delivered. So nothing is lost or held up: a receiver that hangs delays only its own calls.
"""
