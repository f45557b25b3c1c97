import java.util.ArrayList;
import java.util.List;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;

/** What the event at one position of the sequence must fulfil, given the events at earlier positions. */
public class Step extends IterativeCondition<Event> {
    /** earlier.values[earlierValue] OP event.values[ownValue], with OP one of < <= > >= =, or ~d: less than d apart. */
    private static final class Comparison implements java.io.Serializable {
        final String earlier;
        final int earlierValue;
        final String operator;
        final int ownValue;
        final double distance;

        Comparison(String earlier, int earlierValue, String operator, int ownValue) {
            this.earlier = earlier;
            this.earlierValue = earlierValue;
            this.operator = operator;
            this.ownValue = ownValue;
            this.distance = operator.startsWith("~") ? Double.parseDouble(operator.substring(1)) : -1;
        }

        boolean holds(double left, double right) {
            if (distance >= 0) {
                return Math.abs(left - right) < distance;
            }
            switch (operator) {
                case "<":
                    return left < right;
                case "<=":
                    return left <= right;
                case ">":
                    return left > right;
                case ">=":
                    return left >= right;
                case "=":
                    return left == right;
                default:
                    throw new IllegalArgumentException("unknown comparison " + operator);
            }
        }
    }

    private final int type;
    private final String previous;
    private final List<Comparison> comparisons = new ArrayList<>();

    /** `previous` names the position before this one, null for the first. */
    Step(int type, String previous) {
        this.type = type;
        this.previous = previous;
    }

    void compare(String earlier, int earlierValue, String operator, int ownValue) {
        comparisons.add(new Comparison(earlier, earlierValue, operator, ownValue));
    }

    @Override
    public boolean filter(Event event, Context<Event> context) throws Exception {
        if (event.type != type) {
            return false;
        }
        // followedByAny takes events of equal time in arrival order; a sequence needs them strictly later.
        if (previous != null && first(context, previous).ts >= event.ts) {
            return false;
        }
        for (Comparison each : comparisons) {
            double left = first(context, each.earlier).values[each.earlierValue];
            if (!each.holds(left, event.values[each.ownValue])) {
                return false;
            }
        }
        return true;
    }

    private static Event first(Context<Event> context, String position) throws Exception {
        return context.getEventsForPattern(position).iterator().next();
    }
}
