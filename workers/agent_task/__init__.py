"""An agent's task: what its loop is given to work with."""
