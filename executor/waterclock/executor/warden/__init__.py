"""The warden: a small process that starts, watches and ends the processes of jobs.

It stands between the executor and users' programs because some guarantees need a process of their own:

- Whatever a job starts is a descendant of the warden and, once orphaned, its child (it is a *subreaper*), also
  if it called setsid or forked twice. So an attempt ends when nothing of it is left, and not before.
- The warden outlives the executor: when the socket between them closes, it kills everything and ends.
- It has one thread and few pages, so `chdir` and `posix_spawn` are safe and quick, and no handler's code is
  in the way.

The executor's side is `client`, `abandoned` and `working_directories`; everything else runs in the warden, and must
not import anything outside of this package.
"""
