"""How much is accepted when more is offered than can be done."""
