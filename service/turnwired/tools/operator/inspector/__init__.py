"""The inspector of Node processes, by the Chrome DevTools Protocol: the only package that imports ``websockets``."""
