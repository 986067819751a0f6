"""Keeps a core awake for as long as its parent lives: python3 awake.py CORE

A core that waits for a message is halted. On a virtual machine it takes up to 2 ms until it runs again, and longer on
some minutes than on others. Here the lowest class of the scheduler spins instead: any other thread goes first at once.
"""
import os
import sys

parent = os.getppid()
cores = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cores[int(sys.argv[1]) % len(cores)]})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while os.getppid() == parent:
    for _ in range(1000000):
        pass
