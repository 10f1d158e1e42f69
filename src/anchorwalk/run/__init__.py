"""From a plan to stored members. Rooms below `sample` use some of the modules, so this file imports nothing."""
