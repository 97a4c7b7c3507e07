"""What `viz` draws with: pictures, pages and plots, each in a module that is loaded when it is first asked for."""
