"""The runtime: endpoints, tasks, operators, network, and the hosts they run on."""
