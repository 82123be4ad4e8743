"""Models, behind one small seam."""
