from turnwired.runtime import Rewound as Rewound
from turnwired.runtime import Runtime as Runtime
from turnwired.runtime import TurnResult as TurnResult

__version__: str
