"""The faces that other frameworks expect, over the same durable logs.

Each is asynchronous and thin: the synchronous core does the work in a thread, on asyncio and on
trio. No framework is imported until its face is used.
"""
