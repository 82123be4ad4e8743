-- Make room: the events of up to A.traces traces go, of those that ended longest ago. How many there were.

return trim(A.traces)
