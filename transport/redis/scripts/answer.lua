-- Answer an ask of a task. Returns the answer that stands, as JSON: the first; false if the task has ended.

return give(A.task, A.ask, A.text, A.by)
