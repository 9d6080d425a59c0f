"""Where endpoints live: on threads of one process (`local`), or as Ray actors (`ray`)."""
